"""What one call moves: descriptors built by arithmetic on whole arrays, frozen, measured once.

A batch checks shapes and stays inside the memory it was given; whether that memory is still
registered, mapped and writable is checked when it is submitted.
"""

from .batch import Batch
from .buffer import Buffer, DeviceMemory, buffer_of, device_memory_of

__all__ = ["Batch", "Buffer", "DeviceMemory", "buffer_of", "device_memory_of"]
