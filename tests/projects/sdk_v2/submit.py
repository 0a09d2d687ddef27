import os

from azure.ai.ml import Input, MLClient, command
from azure.ai.ml.constants import AssetTypes
from azure.ai.ml.entities import AmlCompute, Data, Environment
from azure.identity import DefaultAzureCredential

CLUSTER = "small-cluster"

client = MLClient(DefaultAzureCredential(), os.environ["SUBSCRIPTION"], os.environ["GROUP"], os.environ["WORKSPACE"])

client.data.create_or_update(Data(name="points", path="./data/points.csv", type=AssetTypes.URI_FILE))
client.compute.begin_create_or_update(AmlCompute(name=CLUSTER, size="Standard_DS3_v2"))

environment = Environment(
    name="points-env",
    image="python:3.11-slim-bookworm",
    conda_file={"dependencies": ["python=3.11", "pip", {"pip": ["pyyaml", "mlflow-skinny", "azureml-mlflow"]}]},
)

job = command(
    code="./src",
    command="python train.py --points ${{inputs.points}} --rate ${{inputs.rate}}",
    inputs={"points": Input(type=AssetTypes.URI_FILE, path="azureml:points@latest"), "rate": 0.1},
    environment=environment,
    compute=CLUSTER,
    experiment_name="points",
)
job = client.jobs.create_or_update(job)
print(job.studio_url)
