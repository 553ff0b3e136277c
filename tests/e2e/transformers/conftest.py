"""Settings for tests with torch."""

from tests.connectors.transformers.conftest import torch_alone

__all__ = ["torch_alone"]
