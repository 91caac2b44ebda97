(() => {
  const choice = document.getElementById('reload');
  const box = choice.querySelector('input');
  const remembered = () => { try { return sessionStorage.getItem('breme-reload'); } catch { return null; } };
  let timer;
  const plan = () => {
    clearTimeout(timer);
    if (box.checked && !document.hidden) timer = setTimeout(() => location.reload(), box.dataset.seconds * 1000);
  };
  box.checked = remembered() !== 'off';
  box.addEventListener('change', () => {
    try { sessionStorage.setItem('breme-reload', box.checked ? 'on' : 'off'); } catch { /* there may be no storage */ }
    plan();
  });
  document.addEventListener('visibilitychange', plan);
  choice.hidden = false;
  plan();
})();
