"""Time: what each step costs, and how kernels and copies overlap.

1. costs      seconds of every run and copy, as plain data
2. roofline   costs modelled from a machine's peak rates (``machines/*.toml``)
3. timeline   a plan played on three clocks: compute, copies out, copies in
"""
