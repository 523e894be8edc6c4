#!/bin/sh
# install.sh PYTHON VENV REQUIREMENT: makes the virtual environment VENV and installs REQUIREMENT into it, editable.
# A Debian python3 comes without ensurepip; then python3-venv is installed where this user may.
set -eu
python=$1 venv=$2 requirement=$3

if [ ! -x "$venv/bin/python" ]; then
    if ! "$python" -m venv "$venv" 2>/dev/null; then
        rm -rf "$venv"
        if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
            apt-get -qq update && apt-get -qq install -y python3-venv
        else
            echo "python3 has no venv module here: install it first (on Debian: sudo apt install python3-venv)" >&2
            exit 1
        fi
        "$python" -m venv "$venv"
    fi
fi
# without compiling everything to bytecode beforehand: most of it is never imported, the rest is compiled then
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --editable "$requirement"
