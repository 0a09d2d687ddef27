import torch

if __name__ == "__main__":
    print(torch.cuda.device_count())
