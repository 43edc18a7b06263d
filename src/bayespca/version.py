"""The version of the package, for those inside it who write it down."""

__version__ = "1.0.0rc1"
