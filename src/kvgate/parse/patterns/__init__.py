"""The patterns of the kernel log, as data: kernel.yaml. A new one costs one entry there."""
