"""The store's size and age: partitions that go first, the forecast, daily lists, and the service that keeps all of it."""
