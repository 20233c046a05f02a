"""The accepted findings of cdk-nag (AwsSolutions) in the stacks, with their reasons.

A test fails on a finding without a reason here, and on a reason without a finding.

A rule is matched by a prefix of its name; IAM5 names the resource in brackets.
"""

from __future__ import annotations

from collections.abc import Mapping

ACKNOWLEDGED: Mapping[str, str] = {
    "AwsSolutions-S1": (
        "Server access logs cost a write per request and answer nothing that CloudTrail's data events do not; they can "
        "be enabled for the bucket."
    ),
    "AwsSolutions-DDB3": "The rows of served tables: they are computed again from the log, which is backed up.",
    "AwsSolutions-SQS3": ("Dead-letter queues: a queue behind one of them would hold the same messages again."),
    "AwsSolutions-L1": (
        "Python 3.13 by choice: the layer's compiled packages and their bytecode are built for it (tools/package.py), "
        "and Glue 6.0 runs it as well."
    ),
    "AwsSolutions-IAM5[Resource::odradek-": (
        "Object keys are created at run time, so a role names prefixes of the bucket (permissions.py): wal/, topics/, "
        "iceberg/, a job's folder. No action is a wildcard."
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:logs:": (
        "Glue creates its log groups and streams under /aws-glue/; their names are not known before."
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:glue:": (
        "export_table and the maintainer create tables whose names are those of topics, or are chosen when a job runs; "
        "they are in databases named odradek or odradek_*."
    ),
    "AwsSolutions-IAM5[Resource::*]": (
        "cloudwatch:PutMetricData takes no resource (service authorization reference); a condition names the namespace."
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:cloudwatch:": (
        "CodeDeploy reads the state of the alarms that guard a deployment; whether a request for some of them may be "
        "narrowed to their names, AWS does not say. It only reads."
    ),
    "AwsSolutions-ECS2": (
        "The gateway's variables are names of tables and settings; its certificate and key come from Secrets Manager."
    ),
    "AwsSolutions-ELB2": (
        "A network load balancer's access log covers TLS connections that it ends itself; here the gateways end them "
        "and log logins and administrative requests."
    ),
    "AwsSolutions-GL1": (
        "The job logs offsets, counts and times, no records; log groups are encrypted by CloudWatch's key. A stage "
        "that needs a separate key adds a security configuration."
    ),
    "AwsSolutions-GL3": "The job keeps no bookmarks: its progress is the checkpoint under its own prefix.",
}
