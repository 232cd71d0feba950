// Before anything is drawn: the colours that were chosen. A classic script, because modules come too late.
'use strict';
{
  let theme = null;
  try {
    theme = localStorage.getItem('sluice.theme');
  } catch {
    // Storage is forbidden.
  }
  document.documentElement.dataset.theme = ['light', 'dark'].includes(theme) ? theme : 'auto';
}
