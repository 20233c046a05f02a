"""The admin client: topics, groups, offsets, ACLs, users. admin.py is asynchronous, sync.py its blocking face."""
