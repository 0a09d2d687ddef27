"""Report the contents of an image, from inside it.

The image's own Python, 3.6 or later, runs this module. It imports nothing of aml-train.

Called as ``python readiness_probe.py RESULT``; writes facts as JSON to RESULT and judges nothing:
:mod:`aml_train.image.readiness.check` does. Whatever may crash (a damaged library kills the process that loads it with SIGBUS) is
tried in a separate process.
"""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

if sys.version_info >= (3, 8):
    from importlib import metadata

FORMAT = 1
SECONDS = 120

# Only these variables are reported: others may hold secrets.
VARIABLES = re.compile(r"NCCL_\w+|LD_LIBRARY_PATH|NVIDIA_DRIVER_CAPABILITIES")
LIBRARIES = ("libibverbs.so.1", "libfuse.so.2")
COMMANDS = ("python", "mpirun")
# Distribution → the module that a job imports.
MODULES = {
    "azureml-mlflow": "azureml.mlflow",
    "azureml-core": "azureml.core",
    "azureml-dataprep": "azureml.dataprep",
    "azure-ai-ml": "azure.ai.ml",
    "mlflow": "mlflow",
    "mlflow-skinny": "mlflow",
}
AZUREML = (
    "azureml-defaults",
    "azureml-mlflow",
    "azureml-core",
    "azureml-dataset-runtime",
    "azure-ai-ml",
    "mlflow",
    "mlflow-skinny",
)

LOAD = """
import ctypes, json, os, sys
name = sys.argv[1]
handle = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
with open("/proc/self/maps", "rb") as maps:
    paths = {line.split(None, 5)[5].decode(errors="replace").strip() for line in maps if line.count(b"/")}
stem = os.path.basename(os.path.realpath(name) if "/" in name else name)
found = sorted(path for path in paths if os.path.basename(path).startswith(stem))
version = None
if "libnccl.so" in name:
    number = ctypes.c_int()
    if handle.ncclGetVersion(ctypes.byref(number)) == 0:
        n = number.value
        major, minor, patch = (n // 10000, n // 100 % 100, n % 100) if n >= 10000 else (n // 1000, n // 100 % 10, n % 100)
        version = "%d.%d.%d" % (major, minor, patch)
print(json.dumps({"path": found[0] if found else None, "version": version}))
"""


def start(argv: List[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: "subprocess.Popen[bytes]") -> Tuple[int, str, str]:
    """Return exit code, output and the end of standard error.

    The exit code is negative for a signal.
    """
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 1, "", "took longer than %d seconds" % SECONDS
    return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace").strip()[-2000:]


def run(argv: List[str]) -> Tuple[int, str, str]:
    try:
        return finish(start(argv))
    except OSError as error:
        return 127, "", str(error)


def reason(code: int, err: str) -> str:
    """Say why a process failed: the signal, or the last line that it wrote."""
    if code < 0:
        try:
            return "killed by " + signal.Signals(-code).name
        except ValueError:
            return "killed by signal %d" % -code
    lines = [line for line in err.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "exit code %d" % code


def load(name: str) -> Dict[str, Any]:
    """Load a library elsewhere; status is ok, absent, or broken with the reason."""
    code, out, err = run([sys.executable, "-B", "-c", LOAD, name])
    if code == 0:
        found = json.loads(out)
        path = os.path.realpath(found["path"]) if found["path"] else None
        return {"status": "ok", "path": path, "version": found["version"], "error": None}
    why = re.sub(r"^OSError: ", "", reason(code, err))
    absent = why.startswith(name + ": cannot open shared object file") and not os.path.lexists(name)
    return {"status": "absent" if absent else "broken", "path": None, "version": None, "error": why}


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def listing(path: str) -> List[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def user() -> Dict[str, Any]:
    try:
        entry = pwd.getpwuid(os.getuid())
        name = entry.pw_name  # type: Optional[str]
    except KeyError:
        name = None
    home = os.path.expanduser("~")
    return {"uid": os.getuid(), "name": name, "home": home, "home_writable": os.access(home, os.W_OK | os.X_OK),
            "tmp_writable": os.access("/tmp", os.W_OK | os.X_OK)}  # fmt: skip


def certificates() -> int:
    """Return how many authorities Python trusts."""
    try:
        import ssl

        count = ssl.create_default_context().cert_store_stats()["x509_ca"]
        # A folder of certificates is read when a name is looked up, so it does not count until then.
        folder = listing(ssl.get_default_verify_paths().capath or "")
        return count or len([name for name in folder if name.endswith(".0")])
    except (ImportError, OSError):
        return 0


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions() -> Tuple[Dict[str, str], Dict[str, List[str]]]:
    """Return version and requirements by canonical name.

    Requirements of extras are left out.
    """
    versions = {}  # type: Dict[str, str]
    requires = {}  # type: Dict[str, List[str]]
    found = []  # type: List[Tuple[str, str, List[str]]]
    if sys.version_info < (3, 8):
        import pkg_resources  # type: ignore[import-not-found,import-untyped,unused-ignore]

        found = [(d.project_name, d.version, [str(r) for r in d.requires()]) for d in pkg_resources.working_set]
    else:
        for dist in metadata.distributions():
            # A folder without METADATA, which a broken uninstall leaves, has no name.
            if dist.metadata["Name"]:
                found.append((dist.metadata["Name"], dist.version, list(dist.requires or ())))
    for name, version, needs in found:
        key = canonical(name)
        if key not in versions:  # the first on sys.path is the one that is imported
            versions[key] = str(version)
            requires[key] = [
                canonical(match.group(0))
                for match in (
                    re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", need)
                    for need in needs
                    if not re.search(r"\bextra\s*==", need)
                )
                if match
            ]
    return versions, requires


def closure(names: Iterable[str], requires: Dict[str, List[str]]) -> List[str]:
    """Return the installed *names* and whatever they require, directly or not."""
    seen = set()
    rest = [name for name in names if name in requires]
    while rest:
        name = rest.pop()
        if name not in seen and name in requires:
            seen.add(name)
            rest += requires[name]
    return sorted(seen)


def system_packages() -> Dict[str, str]:
    queries = (
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n"],
        ["rpm", "-qa", "--qf", "ii %{NAME} %{VERSION}-%{RELEASE}\n"],
    )
    for query in queries:
        if shutil.which(query[0]):
            _, out, _ = run(query)
            rows = [line.split() for line in out.splitlines() if line.startswith("ii ")]
            return {row[1]: row[2] for row in rows if len(row) == 3}
    return {}


def pip_check() -> Optional[List[str]]:
    """Return pip's complaints; None where there is no pip, or it failed otherwise."""
    code, out, _ = run([sys.executable, "-B", "-m", "pip", "--disable-pip-version-check", "check"])
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    return [] if code == 0 else lines if code == 1 and lines else None


def imports(versions: Dict[str, str]) -> Dict[str, Optional[str]]:
    """Import the modules of installed distributions, each in its own process.

    Returns name → reason of failure, or None.
    """
    modules = sorted({module for name, module in MODULES.items() if name in versions})
    running = [(module, start([sys.executable, "-B", "-c", "import " + module])) for module in modules]
    result = {}  # type: Dict[str, Optional[str]]
    for module, process in running:
        code, _, err = finish(process)
        result[module] = None if code == 0 else reason(code, err)
    return result


def mlx5(verbs: Dict[str, Any]) -> Dict[str, Any]:
    """Find the mlx5 provider that libibverbs would load, and load it.

    rdma-core (libibverbs/init.c, dynamic_driver.c) reads ``/etc/libibverbs.d/*.driver`` and opens ``lib<name>-rdmav<ABI>.so``
    next to itself in ``libibverbs/``. The ABI is a string constant of the library.
    """
    result = {"configured": False, "wanted": None, "others": [], "library": None}  # type: Dict[str, Any]
    names = [read(os.path.join("/etc/libibverbs.d", name)) for name in listing("/etc/libibverbs.d")]
    result["configured"] = any(re.search(r"^driver\s+(\S*/)?(lib)?mlx5\b", text, re.MULTILINE) for text in names)
    if verbs["status"] != "ok" or not verbs["path"]:
        return result
    with open(verbs["path"], "rb") as file:
        abi = re.search(rb"-?(rdmav\d+)\.so", file.read())
    folder = os.path.dirname(verbs["path"])
    folders = (os.path.join(folder, "libibverbs"), folder, "/usr/lib64/libibverbs", "/usr/lib/libibverbs")
    present = [
        os.path.join(one, name)
        for one in folders
        for name in listing(one)
        if re.match(r"libmlx5-rdmav\d+\.so$", name)
    ]
    if abi:
        result["wanted"] = "libmlx5-%s.so" % abi.group(1).decode()
        fitting = [path for path in present if os.path.basename(path) == result["wanted"]]
        result["library"] = load(fitting[0]) if fitting else None
    result["others"] = sorted({path for path in present if os.path.basename(path) != result["wanted"]})
    return result


def site_file(relative: str) -> Optional[str]:
    return next((path for path in (os.path.join(one, relative) for one in sys.path) if os.path.isfile(path)), None)


def nccl() -> Dict[str, Any]:
    """Find NCCL, the system's or the one of torch, and its network plugin."""
    library = load("libnccl.so.2")
    bundled = site_file("nvidia/nccl/lib/libnccl.so.2")
    if library["status"] == "absent" and bundled:
        library = load(bundled)
    name = os.environ.get("NCCL_NET_PLUGIN", "")
    plugin = "libnccl-net.so" if name in ("", "none") else name if ".so" in name else "libnccl-net-%s.so" % name
    return {"library": library, "plugin": dict(load(plugin), name=plugin)}


def cuda() -> Optional[str]:
    text = read("/usr/local/cuda/version.json")
    found = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)"', text) or re.search(
        r"CUDA Version (\S+)", read("/usr/local/cuda/version.txt")
    )
    return found.group(1) if found else os.environ.get("CUDA_VERSION")


def torch_cuda() -> Optional[str]:
    """Return the CUDA version of torch without the import, which takes seconds."""
    path = site_file("torch/version.py")
    found = re.search(r"^cuda\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", read(path) if path else "", re.MULTILINE)
    return found.group(1) if found else None


def collect() -> Dict[str, Any]:
    versions, requires = distributions()
    libraries = {name: load(name) for name in LIBRARIES}
    return {
        "format": FORMAT,
        "bash": shutil.which("bash"),
        "python": {"version": "%d.%d.%d" % sys.version_info[:3], "path": sys.executable},
        "commands": {name: shutil.which(name) for name in COMMANDS},
        "user": user(),
        "certificates": certificates(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
        "missing_files": [
            "%s=%s" % (name, os.environ[name])
            for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
            if os.environ.get(name) and not os.path.exists(os.environ[name])
        ],
        "python_packages": versions,
        "system_packages": system_packages(),
        "azureml": closure(AZUREML, requires),
        "pip_check": pip_check(),
        "imports": imports(versions),
        "libraries": libraries,
        "mlx5": mlx5(libraries["libibverbs.so.1"]),
        "nccl": nccl(),
        "cuda": cuda(),
        "torch_cuda": torch_cuda(),
    }  # fmt: skip


def main() -> None:
    facts = collect()
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as file:
        json.dump(facts, file, sort_keys=True)
    os.rename(sys.argv[1] + ".part", sys.argv[1])


if __name__ == "__main__":
    main()
