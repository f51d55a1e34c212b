"""Take the generator out of a StyleGAN2 network pickle, without running any code in it.

python data_scripts/stylegan.py ~/ffhq.pkl --to ~/stylegan     ~/stylegan/ffhq.safetensors and ~/stylegan/ffhq.json

The networks are linked from https://github.com/NVlabs/stylegan2-ada-pytorch, under a licence for research that is not commercial.
"""

import argparse
import sys

from privlab.attacks.model_inversion import stylegan2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", metavar="NETWORK.pkl", help="as the authors hand it out")
    parser.add_argument("--to", metavar="DIR", help="the folder to write in (default: beside it)")
    options = parser.parse_args()
    try:
        print(stylegan2.convert(options.network, options.to))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
