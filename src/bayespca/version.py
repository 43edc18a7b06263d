"""The version of the package, for those inside it who write it down."""

__version__ = "0.1.0"
