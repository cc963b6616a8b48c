"""The report of a forest: a page to open in any browser, and its pictures one by one."""
