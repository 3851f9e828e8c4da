"""The scanner: how much of what is stored is redundant; stdlib, Python >= 3.8, one file on hosts.

NumPy, xxhash, pyfastcdc, zstandard and lz4 are used where they are; what is missing is said in the
result. Nothing here imports the rest of kvgate, so that it travels.
"""
