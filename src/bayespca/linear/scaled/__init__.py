"""Complete data whose noise has a variance for each row or column, or is alike in neighbours."""
