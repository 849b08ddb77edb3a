"""What a run is: its kind of fault, the steps, the records; read `steps`, `kinds`, `plan`."""
