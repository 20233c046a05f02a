#!/usr/bin/env bash
# Kafka's Java library cannot read LZ4 frames with linked blocks, which cramjam and the lz4 command write by default.
#
# Versions: kafka-clients 4.4.0 (Java 17), cramjam 2.14.0 (Python 3.11).
# Behaviour: the LZ4 frame format allows blocks that refer to the one before (block independence, bit 5 of FLG, is 0).
#   Kafka's Lz4BlockInputStream refuses such a frame at its header, even where it holds a single block, so the broker
#   answers the produce request with UNKNOWN_SERVER_ERROR and a Java consumer of a stored one would fail. Most other LZ4
#   libraries read both kinds. cramjam.lz4.compress writes linked blocks; its Compressor has a parameter.
# Consequence: a producer that packs batches with a general LZ4 library asks for independent blocks, and a server that is
#   not in Java refuses linked ones, which its own LZ4 library would read.
# Needs: Python, Java 17, Maven.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cramjam==2.14.0
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>probe</groupId><artifactId>probe</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$folder/jars"
"$folder/venv/bin/python" - <<'PY'
import cramjam

text = b"one record after the other " * 200
frames = {"default": bytes(cramjam.lz4.compress(text))}
for name, is_linked in (("linked", True), ("independent", False)):
    compressor = cramjam.lz4.Compressor(block_linked=is_linked)
    compressor.compress(text)
    frames[name] = bytes(compressor.finish())
for name, frame in frames.items():
    assert bytes(cramjam.lz4.decompress(frame)) == text
    open(f"{name}.lz4", "wb").write(frame)
PY
cat > Probe.java <<'JAVA'
import java.nio.ByteBuffer;
import java.nio.file.*;
import org.apache.kafka.common.compress.Lz4BlockInputStream;
import org.apache.kafka.common.utils.internals.BufferSupplier;

public class Probe {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            ByteBuffer frame = ByteBuffer.wrap(Files.readAllBytes(Path.of(name + ".lz4")));
            try (var in = new Lz4BlockInputStream(frame, BufferSupplier.NO_CACHING, false)) {
                System.out.println(name + ": " + in.readAllBytes().length + " bytes");
            } catch (Exception error) {
                System.out.println(name + ": " + error.getMessage());
            }
        }
    }
}
JAVA
cat > expected <<'SEEN'
default: Dependent block stream is unsupported
linked: Dependent block stream is unsupported
independent: 5400 bytes
SEEN
java -cp "$folder/jars/*" Probe.java default linked independent | tee seen
diff expected seen && echo "as described"
