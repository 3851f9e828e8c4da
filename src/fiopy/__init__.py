"""fio through a subprocess, typed: jobs in, measurements out. Standard library only; knows nothing of kvgate."""
