"""Write every generated block: `python -m tools.docs`."""

from tools.docs.generated import main

main()
