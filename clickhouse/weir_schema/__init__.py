"""What the store consists of, as files: migrations, views, and what they are on a cluster. Pure text; no server is asked."""
