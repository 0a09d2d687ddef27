import hydra
from omegaconf import DictConfig


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    for epoch in range(cfg.epochs):
        print(epoch, cfg.rate)


if __name__ == "__main__":
    main()
