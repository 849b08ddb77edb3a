"""Python imports this module at its start, as this folder stands in PYTHONPATH."""

from tools.torture_eos.seam.wrapping import install

install()
