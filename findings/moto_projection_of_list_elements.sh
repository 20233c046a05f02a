#!/usr/bin/env bash
# moto's DynamoDB returns only the last of several elements of one list that a ProjectionExpression names.
#
# Versions: moto 5.2.5 with boto3 1.44.8; Python 3.11.
# Behaviour: `l[0], l[2]` of the list [a, b, c] gives [c]; DynamoDB gives [a, c], in the list's order ("Using projection
#   expressions", Amazon DynamoDB Developer Guide). Two entries of a map are both returned.
# Consequence: code that projects elements of lists cannot be tested with moto; read the whole list, or ask a strict
#   emulator.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[dynamodb]==5.2.5' boto3==1.44.8
cd "$folder"
cat > probe.py <<'PY'
import boto3
from moto import mock_aws

with mock_aws():
    client = boto3.client("dynamodb", "us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
    client.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    letters = {"L": [{"S": letter} for letter in "abc"]}
    client.put_item(TableName="t", Item={"k": {"S": "1"}, "l": letters, "m": {"M": {"x": {"S": "1"}, "y": {"S": "2"}}}})
    response = client.get_item(TableName="t", Key={"k": {"S": "1"}}, ProjectionExpression="l[0], l[2], m.x, m.y")
    print("list", [element["S"] for element in response["Item"]["l"]["L"]])
    print("map", sorted(response["Item"]["m"]["M"]))
PY
cat > expected <<'SEEN'
list ['c']
map ['x', 'y']
SEEN
"$folder/venv/bin/python" probe.py | tee seen
diff expected seen && echo "as described"
