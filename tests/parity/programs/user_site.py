"""Kind 2: usercustomize, and a .pth file that runs a line, of an environment with a user site."""

# server: plain
# setup: python -m venv --without-pip --system-site-packages other
# setup: python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' > line
# setup: cp line $(echo other/lib/python3*/site-packages)/all.pth
# setup: mkdir -p $(PYTHONUSERBASE=u other/bin/python -m site --user-site)
# setup: echo 'import sys; sys.u = 1' > $(PYTHONUSERBASE=u other/bin/python -m site --user-site)/usercustomize.py
# setup: echo 'import sys; sys.p = 2' > $(PYTHONUSERBASE=u other/bin/python -m site --user-site)/x.pth
# env: PYTHONUSERBASE=u
# run: other/bin/python {program}
import site
import sys

print(site.ENABLE_USER_SITE, getattr(sys, "u", None), getattr(sys, "p", None), "usercustomize" in sys.modules)
