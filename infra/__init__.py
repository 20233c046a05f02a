"""What an AWS account gets, as a CDK app: `python -m infra.app` writes the templates, `cdk deploy` applies them.

    app.py           composition root: stage and artifacts in, cloud assembly out
    stages.py        what differs between dev and prod
    artifacts.py     what `make package` built, or a stand-in that can be synthesized but not deployed
    permissions.py   what each function and job may do: one table
    stacks/          wire only: storage, api, maintenance, pipeline
    constructs/      one capability a file

aws_cdk starts a Node process at its import, so Node is chosen here, before any module of this package imports it.
"""

from __future__ import annotations

from infra.node import choose_node

choose_node()
