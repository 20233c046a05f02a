#!/usr/bin/env bash
# Check that Spark will find a Java it runs on (17 or newer), and say what to install if not.
set -euo pipefail

JAVA_MINIMUM=17

fail() {
  printf 'java: %s\n' "$*" >&2
  echo "java: Spark needs Java $JAVA_MINIMUM. Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install" \
    "java-17-openjdk-headless; macOS: brew install openjdk@17. Then put java on PATH or set JAVA_HOME." >&2
  exit 1
}

# As Spark looks for it: JAVA_HOME first, then PATH.
java=java
[ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
command -v "$java" >/dev/null 2>&1 || fail "no $java here"
# The first line is like: openjdk version "17.0.15" 2025-04-15 - or, before Java 9, "1.8.0_402".
banner=$("$java" -version 2>&1) || fail "$java does not run: $banner"
version=$(printf '%s\n' "$banner" | sed -n 's/.* version "\([0-9.]*\).*/\1/p' | head -n 1)
major=${version%%.*}
[ -n "$major" ] || fail "cannot tell the version of $java"
[ "$major" -ge "$JAVA_MINIMUM" ] || fail "$java is version $version"
