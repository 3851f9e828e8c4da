"""The lab: two virtual machines, an NVMe-oF target and an initiator, on this machine alone.

Python orchestrates; what runs in the guests is in ``guest/``, what makes their image in ``image/``.
"""
