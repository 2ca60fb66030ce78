# Shared by the probes in Bash; see prelude.py.
breach() { echo "breach: $*"; }
