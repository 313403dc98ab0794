"""What is here runs in processes of its own, where the stand-in is the driver."""

collect_ignore = [
    "host_time.py",
    "programs.py",
    "races.py",
    "scenarios.py",
    "stand_in.py",
]
