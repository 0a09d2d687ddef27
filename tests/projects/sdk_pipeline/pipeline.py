from azure.ai.ml import command, dsl

train = command(code="./steps", command="python fit.py", environment="steps@latest")


@dsl.pipeline(default_compute="cluster")
def whole(data):
    train(data=data)
