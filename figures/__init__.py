"""The figures and tables, a script each: measure, draw, compare.

python -m figures NAME              draw from the data that is there
python -m figures NAME --measure    measure first
python -m figures compare           every claim of the papers beside what was measured
"""
