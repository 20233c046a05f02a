#!/usr/bin/env bash
# Fetch Java's own Kafka clients from Maven Central and compile our programs against them: build/java/{jars,classes}.
# Does nothing while neither tests/java/pom.xml nor the programs have changed.
set -euo pipefail
cd "$(dirname "$0")/.."

MAVEN_GOAL=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
OUT=build/java

for tool in javac mvn; do
  command -v "$tool" >/dev/null 2>&1 || {
    echo "java_clients: no $tool here. \`make java\` needs a JDK 17 or newer, Maven and a way to Maven Central." \
      "Debian, Ubuntu: apt-get install openjdk-17-jdk-headless maven; macOS: brew install openjdk@17 maven" >&2
    exit 1
  }
done

# Inputs and whether they are newer than what was made of them.
newer() { [ ! -e "$1" ] || [ -n "$(find "${@:2}" -type f -newer "$1" -print -quit)" ]; }

if newer "$OUT/jars/.complete" tests/java/pom.xml; then
  echo "java_clients: fetching jars from Maven Central"
  rm -rf "$OUT/jars"
  mvn --batch-mode --quiet -Dstyle.color=never --file tests/java/pom.xml "$MAVEN_GOAL" -DoutputDirectory="$PWD/$OUT/jars" || {
    echo "java_clients: the jars cannot be had: is there a way to Maven Central (a proxy goes into ~/.m2/settings.xml)?" >&2
    exit 1
  }
  touch "$OUT/jars/.complete"
fi

if newer "$OUT/classes/.complete" tests/java/src "$OUT/jars/.complete"; then
  rm -rf "$OUT/classes"
  mkdir -p "$OUT/classes"
  find tests/java/src -name '*.java' -print0 | xargs -0 javac -nowarn -proc:none -d "$OUT/classes" -cp "$OUT/jars/*"
  cp -R tests/java/src/META-INF "$OUT/classes/"
  touch "$OUT/classes/.complete"
fi
