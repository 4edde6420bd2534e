"""`python -m pyromq.pipelines.demo`: a day in a shop, then what went in and what came out."""

import sys

from pyromq.pipelines.demo.main import main

sys.exit(main())
