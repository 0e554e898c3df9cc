"""Tests of the dashboards, which share one stack, one Superset and one browser."""
