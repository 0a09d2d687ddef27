from src.features import scale


def main():
    print(scale([1, 2, 3]))


if __name__ == "__main__":
    main()
