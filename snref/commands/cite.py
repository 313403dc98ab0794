"""``snref cite``: BibTeX of snref, of the paper it implements, and of one to come."""

import argparse

import snref

EXAMPLE = "snref cite"

ENTRIES = """\
@software{snref,
  title   = {snref: {SuperNeurons}, a reference in {Numba} {CUDA}},
  author  = {{The snref authors}},
  year    = {2026},
  version = {VERSION}
}

@inproceedings{wang2018superneurons,
  title     = {{SuperNeurons}: Dynamic {GPU} Memory Management for Training Deep
               Neural Networks},
  author    = {Wang, Linnan and Ye, Jinmian and Zhao, Yiyang and Wu, Wei and
               Li, Ang and Song, Shuaiwen Leon and Xu, Zenglin and Kraska, Tim},
  booktitle = {Proceedings of the 23rd ACM SIGPLAN Symposium on Principles and
               Practice of Parallel Programming (PPoPP)},
  pages     = {41--53},
  year      = {2018},
  doi       = {10.1145/3178487.3178491}
}

@inproceedings{shirahata2016memory,
  title     = {Memory Reduction Method for Deep Neural Network Training},
  author    = {Shirahata, Koichi and Tomita, Yasumoto and Ike, Atsushi},
  booktitle = {IEEE 26th International Workshop on Machine Learning for Signal
               Processing (MLSP)},
  year      = {2016}
}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # there are none


def run(arguments: argparse.Namespace) -> int:
    print(ENTRIES.replace("VERSION", snref.__version__))
    return 0
