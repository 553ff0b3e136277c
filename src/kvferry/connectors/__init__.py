"""What connects other projects' software to kvferry. Each connector stands alone and imports what
it connects to only when it is asked for.

    torch_npu     tensors in memory that an engine can register and its peers can map
    transformers  prompts of Hugging Face models, whose beginnings a store knows
"""
