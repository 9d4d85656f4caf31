"""Values to JSON and back; tensors to bytes and back; the safetensors container."""
