"""The store's files: migrations, views, and their form on a cluster. Works on text only, without a server."""
