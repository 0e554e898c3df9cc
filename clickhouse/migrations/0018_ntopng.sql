-- The database of the view ntopng.flows, which stands in ../views.

CREATE DATABASE IF NOT EXISTS ntopng ENGINE = Atomic;
