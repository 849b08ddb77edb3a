"""What tests stand on: real clusters, foreign clients, the unit harness."""
