#!/usr/bin/env bash
# Make the virtual environment that the Makefile asks for: environment.sh PYTHON VENV
set -euo pipefail
python=$1 venv=$2 need_gb=8

if ! command -v "$python" >/dev/null; then
  echo "PYTHON=$python is not on this machine; install Python 3.11 or later, or name one: make env PYTHON=python3.12" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "PYTHON=$python is $("$python" -V 2>&1); privlab needs 3.11 or later: make env PYTHON=python3.12" >&2
  exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "PYTHON=$python cannot make a virtual environment; on Debian and Ubuntu: sudo apt-get install python3-venv" >&2
  exit 1
fi
free_gb=$(df -Pk . | awk 'NR==2 { print int($4 / 1048576) }')
echo "privlab: making $venv with $("$python" -V 2>&1). It takes 2 to 10 minutes, a 3 GB download and 6 GB of disk ($free_gb GB free here)."
if [ "$free_gb" -lt "$need_gb" ]; then
  echo "only $free_gb GB are free here, $need_gb GB are needed (6 to stay, 2 while installing): make room, or work on another disk" >&2
  exit 1
fi

started=$SECONDS
echo "[1/3] an empty environment"
"$python" -m venv --clear "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "[2/3] the packages of requirements.lock (torch is the large one)"
"$venv/bin/python" -m pip install --progress-bar on --constraint requirements.lock --editable '.[test,book,teach,cluster,dp]'
echo "[3/3] a look whether they fit together"
"$venv/bin/python" -c 'import torch, torchvision, timm; torchvision.ops.nms; print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}")'
echo "privlab: $venv is ready after $((SECONDS - started)) s"
