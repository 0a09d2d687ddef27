"""The releases of the InfiniBand drivers whose SHA-256 is publicly known.

No digest here is computed or guessed: each was read in a public repository at the commit that the entry names, where it is checked
each time that Microsoft builds its HPC images. NVIDIA publishes no list of digests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_AZHPC: Final = "https://github.com/Azure/azhpc-images/blob"
_VERSIONS: Final = "versions.json"


@dataclass(frozen=True, kw_only=True)
class Known:
    """A file with a known SHA-256, and the public file that names it."""

    sha256: str
    source: str


def _known(sha256: str, commit: str, path: str) -> Known:
    return Known(sha256=sha256, source=f"{_AZHPC}/{commit}/{path}")


def _script(folder: str) -> str:
    return f"ubuntu/ubuntu-{folder[:2]}.x/ubuntu-{folder}/install_mellanoxofed.sh"


# fmt: off
MLNX_OFED: Final = {
    ("4.9-3.1.5.0", "ubuntu18.04"): _known("29bb4655ed1f1f23d7195539b8d89c4466e824ec7c3e796246e8df149b09bfa5", "1044c550", _script("18.04-LTS-hpc")),
    ("4.9-6.0.6.0", "ubuntu18.04"): _known("ca56ddf53a22192d2c91d1c410db686a8f8faf339020cfe44ab0c664e63c8b99", "0e347e0d", _script("18.04-LTS-hpc")),
    ("4.9-6.0.6.0", "ubuntu20.04"): _known("5cafde8a345a1694f4fc93ba78c6206f30ead005807bf3ba8a4f5c4f388616a9", "24b74de8", _script("20.04-LTS-hpc")),
    ("5.0-1.0.0.0", "ubuntu18.04"): _known("3a198e1114d22fe31338003ef6b8c0e7b082ce719a764b5165727eac63d2b5db", "1bec0a3c", _script("18.04-hpc")),
    ("5.1-2.4.6.0", "ubuntu18.04"): _known("26fb818ed225e6a7eb0621fa0b28cc633e04db0b8ee2ea70a5d0152bee4bcbe4", "3686c7b4", _script("18.04-hpc")),
    ("5.2-1.0.4.0", "ubuntu18.04"): _known("5fbc3aeaa777b2e7d86616e429f367cf5b21870c13fa4e4c775bed32d9330b8c", "cc373168", _script("18.04-hpc")),
    ("5.2-1.0.4.0", "ubuntu20.04"): _known("02c7085a9a79de358eedf2a4530a5bc6af2eee198f0e09f0c6ac3d6cb54ca474", "cb370a22", _script("20.04-hpc")),
    ("5.2-2.2.0.0", "ubuntu18.04"): _known("7752410503a40e5fc9d31c77241413459242751d683265b8a6bde4471ebff5e7", "4415d9f4", _script("18.04-hpc")),
    ("5.2-2.2.3.0", "ubuntu18.04"): _known("e6a188a0089558e32f2493a52e7ed36d838fc03476a59391b5d537c321aa8a44", "56867e2a", _script("18.04-hpc")),
    ("5.2-2.2.3.0", "ubuntu20.04"): _known("72d38888489ba15784d5500fef9ff09c9ef338a5cdd44bfd916a63b06af28ef0", "6bead446", _script("20.04-hpc")),
    ("5.4-1.0.3.0", "ubuntu18.04"): _known("6883710af0929e75d3254b2ffaea6fc1148e6997e28833eef751f4851cf42d30", "094baecb", _script("18.04-hpc")),
    ("5.4-1.0.3.0", "ubuntu20.04"): _known("3ab949727b2e55ebf08fa4a858431a9951455cc2f213ff6c6f8fd94c7070e3ac", "094baecb", _script("20.04-hpc")),
    ("5.4-3.0.0.0", "ubuntu18.04"): _known("547ffc00da06bc4e2a3c6bc4a49879b6b63b2a1b3d7c8013871f2937c1e17e55", "7b5230c8", _script("18.04-hpc")),
    ("5.4-3.0.0.0", "ubuntu20.04"): _known("4a553572286f37cf649d68d70ffecd3d9acf5ba61a0935bb44d7b194782fdd39", "7b5230c8", _script("20.04-hpc")),
    ("5.6-1.0.3.3", "ubuntu18.04"): _known("8d114c3e2aef757ecf8f42a8845f1d4406bfe87865faf9406b36b50a2b45b9c2", "92cafdcd", _script("18.04-hpc")),
    ("5.6-1.0.3.3", "ubuntu20.04"): _known("047c0aa106718e88062c7e65c14435291f534428f150f3173000ec07c40d943e", "92cafdcd", _script("20.04-hpc")),
    ("5.8-1.0.1.1", "ubuntu18.04"): _known("6f9da70efa8af3b95df99cb0a6dcfba91a3ddddaf3b8f2a57522e1c7105aac30", "b624a4e0", _script("18.04-hpc")),
    ("5.8-1.0.1.1", "ubuntu20.04"): _known("1259c867ee1805872bb2838ab12d45685f99d4a3f355def5dd9f610801a8d4b5", "b624a4e0", _script("20.04-hpc")),
    ("5.8-2.0.3.0", "ubuntu18.04"): _known("37b3f86e0172c80e79428ef09e5f45108044e428780273d7dc18b9f54f8d4a2d", "2c4a8940", _script("18.04-hpc")),
    ("5.8-2.0.3.0", "ubuntu20.04"): _known("99aa2966ce260f3ca282e24a26c6f5302692f9072117626107aa599868208d8f", "41cb3fd2", _script("20.04-hpc")),
    ("5.8-2.0.3.0", "ubuntu22.04"): _known("6ec0e1b6a8de6fbcc6d6bceaedf853f801003b0ee854f3b660e53bd2f73ef79a", "41cb3fd2", _script("22.04-hpc")),
    ("5.9-0.5.6.0", "ubuntu18.04"): _known("c50a3fb7263a2e063d1fbe22f4e81e456807067430e46d0b05086a06b948c236", "0d59f762", _script("18.04-hpc")),
    ("5.9-0.5.6.0", "ubuntu20.04"): _known("7a7a31deecf91d5e864f23114283c77115e363c0577faf6e4b8bac8ad965d96a", "3c015076", _script("20.04-hpc")),
    ("5.9-0.5.6.0", "ubuntu22.04"): _known("67b9fe26769c196fc9c7482d7453c75a0ffe700f17884a0173c4b8acacc04bcc", "17739dec", _script("22.04-hpc")),
    ("5.9-0.5.6.0.107", "ubuntu20.04"): _known("3c79370a8ef9548aa8078c1faa9ed832a4bd2cd0c83ebbb0fcc4ac7902ca7f65", "48345edc", _script("20.04-hpc")),
    ("5.9-0.5.6.0.107", "ubuntu22.04"): _known("064af835071a332e0394ba35267c5aa444613bfdde8f0ea8806e70031dc57381", "48345edc", _script("22.04-hpc")),
    ("5.9-0.5.9.0", "ubuntu18.04"): _known("2d773d682c4899ca6b9e77ab93886abecf0afb1049cad93d15a1a5dc9cbf0c30", "1a52b219", _script("18.04-hpc")),
    ("5.9-0.5.9.0", "ubuntu20.04"): _known("b36f7c0bba8bd7b743f942a78860e5e5b4984ea1f00a5ef1789a17dc30b8d55f", "1a52b219", _script("20.04-hpc")),
    ("5.9-0.5.9.0", "ubuntu22.04"): _known("70d62106230446ebf47b325077b2c2494c1f3ced2e03ac97fce08469da7d8224", "1a52b219", _script("22.04-hpc")),
    ("23.04-0.5.3.3", "ubuntu18.04"): _known("f7cbd64171650019eae27191895719ed0c0dc79164736db844f867a5a0fa4e02", "c94bd174", _script("18.04-hpc")),
    ("23.04-0.5.3.3", "ubuntu20.04"): _known("dac77f7f65bf04053ee7fd5a4db58c913df9321a9ba9001928ce1681434538e1", "c94bd174", _script("20.04-hpc")),
    ("23.04-0.5.3.3", "ubuntu22.04"): _known("d18058146e1e09fc3f847a80e777533bc3c769c376a9944128668855c1623a23", "c94bd174", _script("22.04-hpc")),
    ("23.04-1.1.3.0", "ubuntu18.04"): _known("634960b96698f845ccc8974987c71dfeced4553ddc5fb0aa1a79071307cbdd45", "f9a70387", _script("18.04-hpc")),
    ("23.04-1.1.3.0", "ubuntu20.04"): _known("a4b35a53100a1bbc806e558838424824039d789062a5a8cdf5589d91d3769ce4", "f9a70387", _script("20.04-hpc")),
    ("23.04-1.1.3.0", "ubuntu22.04"): _known("8e50a0716081e13a7251d14543a0ea40481d0b3d7e82dda1ed1fc789ce6241cc", "f9a70387", _script("22.04-hpc")),
    ("23.07-0.5.0.0", "ubuntu20.04"): _known("600c98b6d02850214d33b55e3c6a8ccd2d8f440c2ae3f8cd1b4dc004db7e99fd", "821c5e95", _script("20.04-hpc")),
    ("23.07-0.5.0.0", "ubuntu22.04"): _known("7db646d6b542fa8e75fca61a87f86b86bf36ea6e73c16b0bc36f9500e6b6f106", "821c5e95", _script("22.04-hpc")),
    ("23.07-0.5.1.2", "ubuntu20.04"): _known("923ddbd48d250b25ba50098ad8852ad6a591df3e975f3e0b9922b752181bdd12", "91cb7f37", _script("20.04-hpc")),
    ("23.07-0.5.1.2", "ubuntu22.04"): _known("77e032a48de4c040b2f2dd3bf2edd11921de7caff59c773ac35208514f72eff5", "91cb7f37", _script("22.04-hpc")),
}
"""(version, distribution) → ``MLNX_OFED_LINUX-VERSION-DISTRIBUTION-x86_64.tgz``."""

DOCA: Final = {
    ("2.10.0-093000-25.01", "ubuntu22.04", "amd64"): _known("c9758f9029393b749908f0485827004dafa8cc0e24313f1f2bdae2406050ddfd", "85f99f47", _VERSIONS),
    ("2.10.0-093000-25.01", "ubuntu24.04", "amd64"): _known("d33944191d8333f86a3ce0d6531ab542429c0ca4513286046ae51d554001ef9f", "b26525e5", _VERSIONS),
    ("3.0.0-058000-25.04", "ubuntu24.04", "amd64"): _known("34bef7c4145f154e5b7230b099e1764eed169057f5f5b60d2a62d69ed94f563b", "b45566c6", _VERSIONS),
    ("3.1.0-091000-25.07", "ubuntu22.04", "amd64"): _known("5ba139cd07efee5769a2a39ee2797fc9183f3903d87f46385403e61f41076ac9", "f4c1ad54", _VERSIONS),
    ("3.1.0-091000-25.07", "ubuntu24.04", "amd64"): _known("6a244de499f19869eb9d06455057cb95ed90745bd8c890ba1282df8d5c05a96e", "4e1c779c", _VERSIONS),
    ("3.2.1-044000-25.10", "ubuntu22.04", "amd64"): _known("75b8d4258b7239ef5021abaa25e7eeb4fcbc0c8117cab89ce1a766d2d218c8a0", "e6f02083", _VERSIONS),
    ("3.2.1-044000-25.10", "ubuntu24.04", "amd64"): _known("f16f08572b3b2f513b80af66c881c6a60c19e74f0da50afafaa42b0c34116533", "e6f02083", _VERSIONS),
    ("3.2.1-044000-25.10", "ubuntu24.04", "arm64"): _known("748ddd8a7445f5821423a10f9c26e6d17625286676d2e2a88bea56b0b2a6e3d4", "e474e694", _VERSIONS),
    ("3.2.2-035000-25.10", "ubuntu24.04", "amd64"): _known("16e5f6cf50ad2e96e1b39dfd29979d17f9883ecd4a4fa7f71b98050b4f1f0e08", "d1ac9e3b", _VERSIONS),
    ("3.2.2-035000-25.10", "ubuntu24.04", "arm64"): _known("0343656f130b79b7392742f9f7890fb59d6a1489fa020ccab26adc714e727b04", "09ece833", _VERSIONS),
    ("3.2.3-019000-25.10", "ubuntu24.04", "amd64"): _known("762a3dbc1c8c1e4b03867b022ccafcfafa95bffe461a58a5b6e38fc678263614", "0132493d", _VERSIONS),
}
"""(build, distribution, architecture) → ``doca-host_BUILD-DISTRIBUTION_ARCHITECTURE.deb``. The build begins with the release."""
# fmt: on
