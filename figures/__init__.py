"""The figures and tables of both papers, and ours: a script each.

python -m figures                   draw all of them from the data that is there
python -m figures NAME              draw one, and print its table and claims
python -m figures NAME --measure    measure first
python -m figures NAME --net resnet50 --batch 64    the same figure of another net
python -m figures compare           every number of the papers beside ours
"""
