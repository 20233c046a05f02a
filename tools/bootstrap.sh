#!/usr/bin/env bash
# Make .venv match uv.lock on a bare machine: needs Python 3.11-3.13 and the package index, nothing else.
#
#   PYTHON   the interpreter to use; by default the newest that fits on PATH
#
# uv is taken from PATH if it is recent enough, else from the package index into build/bootstrap (never system-wide).
# uv may not download interpreters: what runs is what the machine's owner installed.
set -euo pipefail
cd "$(dirname "$0")/.."

UV_MINIMUM=0.9

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
  if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null 2>&1 || fail "PYTHON=$PYTHON is not a command"
    fits "$PYTHON" || fail "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1); Odradek needs Python 3.11, 3.12 or 3.13"
    command -v "$PYTHON"
    return
  fi
  local name
  for name in python3 python3.13 python3.12 python3.11 python; do
    if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
      command -v "$name"
      return
    fi
  done
  fail "no Python 3.11, 3.12 or 3.13 found: install one (Debian, Ubuntu: apt-get install python3 python3-venv;" \
    "macOS: brew install python@3.13) or name one with PYTHON=/path/to/python"
}

recent_uv() { # whether the uv at $1 is at least UV_MINIMUM
  local version
  version=$("$1" --version 2>/dev/null | awk '{print $2}') || return 1
  [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$UV_MINIMUM" "$version" | sort -V | head -n 1)" = "$UV_MINIMUM" ]
}

find_uv() { # prints the command; installs it with pip where there is none
  local home=build/bootstrap candidate
  for candidate in "$(command -v uv || true)" "$home/bin/uv"; do
    if [ -n "$candidate" ] && recent_uv "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: fetching uv from the package index" >&2
  rm -rf "$home"
  # A venv where the system has ensurepip (Debian splits it into python3-venv), else pip's own --target.
  if "$python" -m venv "$home" >/dev/null 2>&1; then
    "$home/bin/python" -m pip install --quiet "uv>=$UV_MINIMUM,<1" >&2 || fail "pip could not install uv (see above)"
  elif "$python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$home"
    "$python" -m pip install --quiet --target "$home" "uv>=$UV_MINIMUM,<1" >&2 || fail "pip could not install uv (see above)"
  else
    fail "$python has neither venv nor pip: install them (Debian, Ubuntu: apt-get install python3-venv) or install uv"
  fi
  recent_uv "$home/bin/uv" || fail "uv from the package index does not run on this machine"
  echo "$home/bin/uv"
}

python=$(find_python)
uv=$(find_uv)
echo "setup: $("$python" -V), $("$uv" --version | awk '{print $1, $2}') -> .venv" >&2
# --no-managed-python and never: the interpreter found above, no other.
UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=.venv "$uv" sync --frozen --all-groups --python "$python" --quiet ||
  fail "uv could not build .venv from uv.lock (see above); is the package index reachable?"
