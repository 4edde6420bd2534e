"""`python -m pyromq.pipelines.demo`: a day in a shop, then what went in and what came out."""

import sys

try:
    from pyromq.pipelines.demo.main import main
except KeyboardInterrupt:  # it takes a second to load
    sys.exit(130)

sys.exit(main())
