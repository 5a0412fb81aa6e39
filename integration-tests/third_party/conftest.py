"""The projects' own tests run where the projects are installed, and not from here."""

collect_ignore_glob = ["calor-*"]
