"""Tools and programs in processes of their own, which a cancel can kill."""
