"""The store's size and age: partitions to drop first, the forecast, daily lists, and the service that maintains
them."""
