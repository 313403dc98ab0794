"""``snref cite``: BibTeX of snref, of the paper it implements, and of each policy."""

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
}

The policies (snref plan --policy). These entries are written down from memory and from
secondary sources, and were not checked against the publications.

@inproceedings{jia2014caffe,
  title     = {Caffe: Convolutional Architecture for Fast Feature Embedding},
  author    = {Jia, Yangqing and Shelhamer, Evan and Donahue, Jeff and Karayev, Sergey
               and Long, Jonathan and Girshick, Ross and Guadarrama, Sergio and
               Darrell, Trevor},
  booktitle = {Proceedings of the 22nd ACM International Conference on Multimedia},
  year      = {2014}
}

@article{chen2015mxnet,
  title   = {{MXNet}: A Flexible and Efficient Machine Learning Library for
             Heterogeneous Distributed Systems},
  author  = {Chen, Tianqi and Li, Mu and Li, Yutian and Lin, Min and Wang, Naiyan and
             Wang, Minjie and Xiao, Tianjun and Xu, Bing and Zhang, Chiyuan and
             Zhang, Zheng},
  journal = {arXiv:1512.01274},
  year    = {2015}
}

@inproceedings{abadi2016tensorflow,
  title     = {{TensorFlow}: A System for Large-Scale Machine Learning},
  author    = {Abadi, Mart{\\'i}n and others},
  booktitle = {12th USENIX Symposium on Operating Systems Design and Implementation
               (OSDI)},
  year      = {2016}
}

@inproceedings{rhu2016vdnn,
  title     = {{vDNN}: Virtualized Deep Neural Networks for Scalable, Memory-Efficient
               Neural Network Design},
  author    = {Rhu, Minsoo and Gimelshein, Natalia and Clemons, Jason and
               Zulfiqar, Arslan and Keckler, Stephen W.},
  booktitle = {49th Annual IEEE/ACM International Symposium on Microarchitecture
               (MICRO)},
  note      = {arXiv:1602.08124},
  year      = {2016}
}

@article{chen2016training,
  title   = {Training Deep Nets with Sublinear Memory Cost},
  author  = {Chen, Tianqi and Xu, Bing and Zhang, Chiyuan and Guestrin, Carlos},
  journal = {arXiv:1604.06174},
  year    = {2016}
}

@article{pleiss2017memory,
  title   = {Memory-Efficient Implementation of {DenseNets}},
  author  = {Pleiss, Geoff and Chen, Danlu and Huang, Gao and Li, Tongcheng and
             van der Maaten, Laurens and Weinberger, Kilian Q.},
  journal = {arXiv:1707.06990},
  year    = {2017}
}

@inproceedings{kirisame2021dynamic,
  title     = {Dynamic Tensor Rematerialization},
  author    = {Kirisame, Marisa and Lyubomirsky, Steven and Haan, Altan and
               Brennan, Jennifer and He, Mike and Roesch, Jared and Chen, Tianqi and
               Tatlock, Zachary},
  booktitle = {International Conference on Learning Representations (ICLR)},
  note      = {arXiv:2006.09616},
  year      = {2021}
}

@misc{pytorch2024budget,
  title        = {The activation memory budget of {PyTorch}'s compiler},
  author       = {{The PyTorch developers}},
  howpublished = {https://github.com/pytorch/pytorch: partitioners.py and
                  config.py of its functorch},
  year         = {2024}
}

@article{belady1966study,
  title   = {A Study of Replacement Algorithms for a Virtual-Storage Computer},
  author  = {Belady, L. A.},
  journal = {IBM Systems Journal},
  volume  = {5},
  number  = {2},
  year    = {1966}
}

@article{beaumont2019optimal,
  title   = {Optimal Checkpointing for Heterogeneous Chains: How to Train Deep Neural
             Networks with Limited Memory},
  author  = {Beaumont, Olivier and Eyraud-Dubois, Lionel and Herrmann, Julien and
             Joly, Alexis and Shilova, Alena},
  journal = {arXiv:1911.13214},
  year    = {2019}
}

@inproceedings{jain2020checkmate,
  title     = {Checkmate: Breaking the Memory Wall with Optimal Tensor
               Rematerialization},
  author    = {Jain, Paras and Jain, Ajay and Nrusimha, Aniruddha and Gholami, Amir and
               Abbeel, Pieter and Keutzer, Kurt and Stoica, Ion and
               Gonzalez, Joseph E.},
  booktitle = {Proceedings of Machine Learning and Systems (MLSys)},
  note      = {arXiv:1910.02653},
  year      = {2020}
}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # there are none


def run(arguments: argparse.Namespace) -> int:
    print(ENTRIES.replace("VERSION", snref.__version__))
    return 0
